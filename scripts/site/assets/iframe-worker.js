// Browsers start no worker for a page that is opened from disk. The search of such a page runs in a hidden frame instead, with
// the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inside = frame.contentWindow;
      const toPage = (data) => {
        const event = new MessageEvent("message", { data });
        this.onmessage?.(event);
        this.dispatchEvent(event);
      };
      // The script posts to its global scope, which here is the frame's window.
      inside.postMessage = toPage;
      inside.importScripts = (...scripts) =>
        scripts.forEach((script) => inside.document.write(`<script src="${new URL(script, url)}"><\/script>`));
      this.ready = new Promise((done) => {
        const script = inside.document.createElement("script");
        script.src = url;
        script.onload = done;
        inside.document.body.append(script);
      });
      this.inside = inside;
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
