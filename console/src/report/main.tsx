// The script of static pages: draws the figures of the file's data into their places, and the console's view of the experiment where the file carries its runs.
import { effect } from "@preact/signals";
import { render } from "preact";
import type { ExperimentPage } from "../answers";
import { answerFrom } from "../ask";
import { isDark } from "../colours";
import { Tables } from "../lab";
import { route, view } from "../route";
import "../style.css";
import { language } from "../words";
import { setColours } from "./colours";
import type { PageData } from "./data";
import { Figure } from "./figures";
import "./report.css";
import { embedded, inflated } from "./source";
import { enliven } from "./tables";

const data = JSON.parse(document.getElementById("report-data")!.textContent!) as PageData;
language.value = "en"; // as the page's own sentences
effect(() => {
  document.documentElement.dataset["theme"] = isDark.value ? "dark" : "light";
});
setColours();
enliven(data.colours);
for (const place of document.querySelectorAll<HTMLElement>("[data-figure]")) {
  const drawing = data.figures[place.dataset["figure"]!];
  if (drawing) render(<Figure drawing={drawing} label={place.dataset["label"] ?? ""} />, place);
}
const { runs } = data;
const lab = document.getElementById("lab-view");
if (lab && runs) {
  if (view.value !== "lab") route.value = { view: "lab", unknown: "", query: new URLSearchParams() };
  answerFrom(embedded(runs));
  void inflated<ExperimentPage>(runs.page).then((page) => {
    lab.replaceChildren();
    render(<Tables page={page} />, lab);
    if (location.hash.startsWith("#/lab")) lab.scrollIntoView();
  });
}
