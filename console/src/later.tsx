// A view whose file is loaded when it is opened. `of`: what it is asked to show, where that is not in the address.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { t } from "./words";

export function Later({ load, of = "" }: { load: () => Promise<ComponentType<{ of: string }>>; of?: string }) {
  const [View, set] = useState<ComponentType<{ of: string }> | null>(null);
  const [why, fail] = useState("");
  useEffect(() => {
    load().then((found) => set(() => found), (error: Error) => fail(error.message));
  }, [load]);
  if (why) return <p class="error" role="alert">{why}</p>;
  return View ? <View of={of} /> : <p class="empty">{t("loading")}</p>;
}
