import { render } from "preact";
import { App } from "./app";
import { start } from "./live";
import "./style.css";
import { language, setLanguage } from "./words";

setLanguage(language.value);
render(<App />, document.getElementById("app")!);
void start();
