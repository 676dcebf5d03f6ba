// Questions as a hook, to the console or to what a static page carries (`answerFrom`): the last answer stays while a newer one is on its way, and an error is a sentence. Where a source is away (no connection, 502, 503), the last answer stays beside the error.
import { useEffect, useState } from "preact/hooks";

export interface Asked<T> {
  value: T | null;
  error: string;
  status: number;
  isLoading: boolean;
  /** Unix seconds of the last answer. */
  at: number;
}

/** Who answers: the console's server, or what a file carries. */
export type Source = (path: string, signal?: AbortSignal) => Promise<unknown>;

let source: Source = () => Promise.reject(new Failure("nobody answers here", 0));

/** Once, before the page is drawn. */
export function answerFrom(chosen: Source): void {
  source = chosen;
}

export class Failure extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** Ask when `path` changes and then every `everyS`; an empty path asks nothing. */
export function useAsked<T>(path: string, everyS = 0, delayMs = 0): Asked<T> {
  const [state, set] = useState<Asked<T> & { path: string }>({ value: null, error: "", status: 0, isLoading: !!path, at: 0, path });
  useEffect(() => {
    if (!path) {
      set({ value: null, error: "", status: 0, isLoading: false, at: 0, path });
      return undefined;
    }
    const ending = new AbortController();
    let answered = false; // for this path
    let timer: number | undefined;
    const run = async (): Promise<void> => {
      try {
        const value = (await source(path, ending.signal)) as T;
        answered = true;
        set({ value, error: "", status: 200, isLoading: false, at: Date.now() / 1000, path });
      } catch (error) {
        if (ending.signal.aborted) return;
        const status = error instanceof Failure ? error.status : 0;
        const isAway = answered && (status === 0 || status >= 502);
        set((before) => ({ value: isAway ? before.value : null, error: String((error as Error).message), status, isLoading: false, at: before.at, path }));
      }
      if (everyS) timer = setTimeout(() => void run(), everyS * 1000);
    };
    set((before) => ({ ...before, isLoading: true, path }));
    timer = setTimeout(() => void run(), delayMs);
    return () => {
      ending.abort();
      clearTimeout(timer);
    };
  }, [path, everyS, delayMs]);
  return state;
}
