import { render } from "preact";
import { App } from "./app";
import { answerFrom } from "./ask";
import { begin } from "./live";
import { overNetwork } from "./network";
import "./style.css";
import { language, setLanguage } from "./words";

answerFrom(overNetwork);
setLanguage(language.value);
render(<App />, document.getElementById("app")!);
begin();
