// What a viewer asks for: sent once, told in a line, and the view is asked again at once.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { post } from "../network";
import { say } from "./words";

export interface Sender {
  send: (body: object, name: string) => Promise<void>;
  isBusy: boolean;
  told: ComponentChildren;
}

/** `after`: called when an answer came. */
export function useSender(after: () => void): Sender {
  const [isBusy, busy] = useState(false);
  const [told, tell] = useState<[text: string, isWrong: boolean]>(["", false]);
  const send = async (body: object, name: string): Promise<void> => {
    busy(true);
    try {
      tell([say("sent", { name, told: (await post<{ told: string }>("/api/autonomy", body)).told }), false]);
    } catch (error) {
      tell([String((error as Error).message), true]);
    }
    busy(false);
    after();
  };
  const [text, isWrong] = told;
  return { send, isBusy, told: text && <p class={isWrong ? "error" : "note"} role={isWrong ? "alert" : "status"}>{text}</p> };
}

/** A button whose first press asks and whose second one does it. Where nothing may be sent: the command. */
export function Ask({ sender, verb, of, name, id, command }: { sender: Sender | null; verb: "approve" | "undo"; of: string; name: string; id: string; command: string }) {
  const [isArmed, arm] = useState(false);
  if (!sender) return <code>cotenant receipts {verb} {command}</code>;
  const press = (): void => {
    arm(false);
    void sender.send({ verb, of, name, id }, name);
  };
  return (
    <span class="chips">
      <button type="button" disabled={sender.isBusy} aria-pressed={isArmed} onClick={() => arm(!isArmed)}>{say(verb)}</button>
      {isArmed && <button type="button" class="burning" onClick={press}>{say("really", { verb: say(verb), name })}</button>}
    </span>
  );
}
