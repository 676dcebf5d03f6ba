// A shared worker: one event stream for all of a browser's pages of one console. It ends with the last of them, and none of them has to hand it over.
import { type Said, Stream } from "./stream";

const ports = new Set<MessagePort>();
const stream = new Stream((said) => ports.forEach((port) => port.postMessage(said)));

addEventListener("connect", (event) => {
  const port = (event as MessageEvent).ports[0]!;
  port.onmessage = ({ data }: MessageEvent<string | null>) => {
    if (data === null) {
      ports.delete(port);
      if (!ports.size) stream.close();
      return;
    }
    ports.add(port);
    stream.join(data, (said: Said) => port.postMessage(said));
  };
});
