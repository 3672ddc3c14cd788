// The progress of an operation, as it is reported. At its end the page loads the result.

const address = document.body.dataset.operation;

if (address) {
  const source = new EventSource(address);
  const bar = document.getElementById("progress");
  const text = document.getElementById("progress-text");
  source.onmessage = (event) => {
    const record = JSON.parse(event.data);
    if (record.ended) {
      source.close();
      location.reload();
      return;
    }
    if (record.total) {
      bar.max = record.total;
      bar.value = record.done;
    }
    text.textContent = `${record.done.toLocaleString("en")} of ${record.total.toLocaleString("en")}`;
  };
  addEventListener("pagehide", () => source.close());
}
