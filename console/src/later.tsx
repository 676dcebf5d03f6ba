// A view whose file is loaded when it is opened.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { t } from "./words";

export function Later({ load }: { load: () => Promise<ComponentType> }) {
  const [View, set] = useState<ComponentType | null>(null);
  const [why, fail] = useState("");
  useEffect(() => {
    load().then((found) => set(() => found), (error: Error) => fail(error.message));
  }, [load]);
  if (why) return <p class="error" role="alert">{why}</p>;
  return View ? <View /> : <p class="empty">{t("loading")}</p>;
}
