// The tab of a terminal: its code is another file (open.ts), loaded when the tab is opened.
import { useEffect, useRef } from "preact/hooks";
import { t } from "../words";

export function Terminal({ guid }: { guid: string }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let end: (() => void) | null = null;
    let isGone = false;
    void import("./open").then(({ open }) => {
      if (isGone || !box.current) return;
      end = open(box.current, guid, { keys: t("terminal.keys"), screen: t("terminal.screen"), again: t("terminal.again"), ended: (why, code) => (code === null ? t("terminal.ended", { why }) : t("terminal.code", { code: String(code) })) });
    });
    return () => {
      isGone = true;
      end?.();
    };
  }, [guid]);
  return <section aria-label={t("terminal")}><p class="soft">{t("terminal.note")}</p><div class="terminal" ref={box} /></section>;
}
