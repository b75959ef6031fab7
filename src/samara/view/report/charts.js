"use strict";
// Charts of a flight, drawn on canvases from the data in the page; nothing is fetched.
//   drag       zoom in (all charts over the same axis follow)      double click, Escape   reset the zoom
//   move       read the values under the pointer                   a name                 hide or show its curve
(() => {
  const page = JSON.parse(document.getElementById("chart-data").textContent);
  const MARGIN = { left: 58, right: 12, top: 8, bottom: 34 };
  const views = {}; // visible range of each axis, [from, to], by the name of the axis
  const pointer = {}; // position of the pointer on each axis
  let redrawPending = false;

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const make = (tag, parent, className, text) => {
    const node = document.createElement(tag);
    node.className = className || "";
    node.textContent = text || ""; // as text: names are never parsed as HTML
    parent.append(node);
    return node;
  };
  const digits = (value, step) => {
    const size = Math.abs(value);
    if (size && (size < 1e-4 || size >= 1e6)) return value.toExponential(2);
    return value.toFixed(Math.max(0, Math.min(6, -Math.floor(Math.log10(step)))));
  };
  const formatValue = (value) => (value === 0 ? "0" : digits(value, Math.abs(value) / 500));

  function niceStep(span, count) {
    const rough = span / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((k) => k * power).find((step) => step >= rough * 0.999);
  }

  function ticks(low, high, count, log) {
    const positions = [];
    if (log) {
      for (let k = Math.ceil(low - 1e-9); k <= high + 1e-9; k++) positions.push(k);
      return { positions, text: (k) => (k >= -3 && k <= 4 ? String(+(10 ** k).toPrecision(1)) : `1e${k}`) };
    }
    const step = niceStep(high - low, count);
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) positions.push(k * step);
    return { positions, text: (value) => digits(Math.abs(value) < 1e-9 * step ? 0 : value, step) };
  }

  // The index of the first element of an ascending list that is not below a value.
  function lowerBound(list, value) {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  class Chart {
    constructor(box, data) {
      this.data = data;
      this.hidden = new Set();
      const head = make("div", box, "chart-head");
      make("b", head, "", data.title);
      this.reset = make("button", head, "chart-reset", "show all");
      this.reset.addEventListener("click", () => this.resetView());
      const legend = make("span", head, "chart-names");
      const ordered = [...data.curves].sort((a, b) => (a.style !== "line") - (b.style !== "line"));
      const names = new Map(ordered.map((curve) => [curve.group, curve]));
      if (names.size > 1) names.forEach((curve, name) => this.addName(legend, name, curve));
      this.canvas = make("canvas", box, data.equal ? "chart-map" : "");
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "img");
      this.canvas.setAttribute("aria-label", `${data.title} [${data.unit}]: ${[...names.keys()].join(", ")}`);
      this.note = make("div", box, "chart-note");
      this.canvas.addEventListener("pointermove", (event) => this.onPointerMove(event));
      this.canvas.addEventListener("pointerleave", () => this.onPointerLeave());
      this.canvas.addEventListener("pointerdown", (event) => this.onPointerDown(event));
      this.canvas.addEventListener("pointerup", (event) => this.onPointerUp(event));
      this.canvas.addEventListener("dblclick", () => this.resetView());
      this.canvas.addEventListener("keydown", (event) => event.key === "Escape" && this.resetView());
    }

    addName(legend, name, curve) {
      const button = make("button", legend, "", name);
      button.style.setProperty("--curve-colour", curve.group === name && curve.style === "line" ? curve.colour : "var(--ink)");
      button.style.setProperty("--curve-line", curve.style === "dash" ? "dashed" : "solid");
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        if (!this.hidden.delete(name)) this.hidden.add(name);
        button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
        redraw();
      });
    }

    get visibleCurves() {
      return this.data.curves.filter((curve) => !this.hidden.has(curve.group));
    }

    // Ranges [from, to] of both axes; y fits the visible part of the visible curves.
    ranges() {
      const { data } = this, x = views[data.over] || data.x;
      if (data.equal) return this.mapRanges();
      if (!views[data.over] && !this.hidden.size) return { x, y: data.y };
      let low = Infinity, high = -Infinity;
      for (const curve of this.visibleCurves) {
        const time = data.xs[curve.x];
        for (let i = Math.max(lowerBound(time, x[0]) - 1, 0); i < time.length && (i === 0 || time[i - 1] <= x[1]); i++) {
          const value = curve.y[i];
          if (value === null) continue;
          low = Math.min(low, curve.style === "band" ? -value : value);
          high = Math.max(high, value);
        }
      }
      if (!(low <= high)) return { x, y: data.y };
      const half = 0.54 * Math.max(high - low, data.minSpan);
      return { x, y: [(low + high) / 2 - half, (low + high) / 2 + half] };
    }

    mapRanges() { // a metre is as long to the east as to the north
      const { data } = this, box = this.box, [x, y] = this.mapView || [data.x, data.y];
      const metres = Math.max((x[1] - x[0]) / box.width, (y[1] - y[0]) / box.height);
      const around = (range, size) => [-0.5, 0.5].map((k) => (range[0] + range[1]) / 2 + k * metres * size);
      return { x: around(x, box.width), y: around(y, box.height) };
    }

    draw() {
      const { canvas, data } = this, ratio = window.devicePixelRatio || 1;
      const width = canvas.clientWidth, height = canvas.clientHeight;
      if (!width) return;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      this.box = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
      const pen = canvas.getContext("2d"), { x, y } = (this.range = this.ranges());
      pen.scale(ratio, ratio);
      this.right = (value) => MARGIN.left + ((value - x[0]) / (x[1] - x[0])) * this.box.width;
      this.up = (value) => MARGIN.top + (1 - (value - y[0]) / (y[1] - y[0])) * this.box.height;
      this.drawGrid(pen, x, y);
      pen.save();
      pen.beginPath();
      pen.rect(MARGIN.left, MARGIN.top - 1, this.box.width, this.box.height + 2);
      pen.clip();
      for (const shape of data.shapes) this.drawShape(pen, shape);
      for (const curve of this.visibleCurves) this.drawCurve(pen, curve);
      this.drawMarks(pen);
      if (this.dragged) {
        const [a, b] = this.dragged;
        pen.fillStyle = style("--ink");
        pen.globalAlpha = 0.12;
        if (data.equal) pen.fillRect(a.x, a.y, b.x - a.x, b.y - a.y);
        else pen.fillRect(a.x, MARGIN.top, b.x - a.x, this.box.height);
      }
      pen.restore();
      this.reset.hidden = data.equal ? !this.mapView : !views[data.over];
    }

    drawGrid(pen, x, y) {
      const { data, box } = this, across = ticks(x[0], x[1], box.width / 80, data.log), along = ticks(y[0], y[1], box.height / 34, data.log);
      pen.font = "11px system-ui, sans-serif";
      pen.lineWidth = 1;
      pen.strokeStyle = style("--line");
      pen.fillStyle = style("--faint");
      const line = (x1, y1, x2, y2) => { pen.beginPath(); pen.moveTo(x1, y1); pen.lineTo(x2, y2); pen.stroke(); };
      pen.textAlign = "center";
      for (const position of across.positions) {
        line(this.right(position), MARGIN.top, this.right(position), MARGIN.top + box.height);
        pen.fillText(across.text(position), this.right(position), MARGIN.top + box.height + 14);
      }
      pen.fillText(data.xname, MARGIN.left + box.width / 2, MARGIN.top + box.height + 29);
      pen.textAlign = "right";
      for (const position of along.positions) {
        line(MARGIN.left, this.up(position), MARGIN.left + box.width, this.up(position));
        pen.fillText(along.text(position), MARGIN.left - 6, this.up(position) + 4);
      }
      pen.save();
      pen.translate(12, MARGIN.top + box.height / 2);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "center";
      pen.fillText(data.axis || `[${data.unit}]`, 0, 0);
      pen.restore();
    }

    drawShape(pen, shape) {
      pen.beginPath();
      shape.points.forEach(([a, b]) => pen.lineTo(this.right(a), this.up(b)));
      pen.closePath();
      pen.globalAlpha = 0.5;
      pen.fillStyle = shape.colour;
      pen.fill();
      pen.globalAlpha = 1;
    }

    drawCurve(pen, curve) {
      const time = this.data.xs[curve.x], { y } = curve;
      pen.beginPath();
      let gap = true;
      for (let i = 0; i < y.length; i++) {
        if (y[i] === null) { gap = true; continue; }
        if (gap) pen.moveTo(this.right(time[i]), this.up(y[i]));
        else pen.lineTo(this.right(time[i]), this.up(y[i]));
        gap = false;
      }
      pen.strokeStyle = pen.fillStyle = curve.colour || style("--ink");
      if (curve.style === "band") {
        for (let i = y.length - 1; i >= 0; i--) pen.lineTo(this.right(time[i]), this.up(-y[i]));
        pen.globalAlpha = 0.12;
        pen.fill();
      } else {
        pen.setLineDash(curve.style === "line" ? [] : [4, 3]);
        pen.lineWidth = curve.style === "line" ? 1.5 : 1;
        pen.lineJoin = "round";
        pen.stroke();
      }
      pen.globalAlpha = 1;
      pen.setLineDash([]);
    }

    drawMarks(pen) {
      const { data, box } = this;
      pen.strokeStyle = pen.fillStyle = style("--ink");
      for (const limit of data.limits) {
        pen.setLineDash([6, 3, 1, 3]);
        pen.beginPath();
        pen.moveTo(MARGIN.left, this.up(limit.value));
        pen.lineTo(MARGIN.left + box.width, this.up(limit.value));
        pen.stroke();
        pen.setLineDash([]);
        pen.textAlign = "right";
        pen.fillText(limit.name, MARGIN.left + box.width - 4, this.up(limit.value) + (limit.name === "max" ? 12 : -4));
      }
      if (data.over === "time") {
        let last = -Infinity; // closer labels would overlap
        for (const mark of page.marks) {
          pen.globalAlpha = 0.3;
          pen.fillRect(this.right(mark.time), MARGIN.top, 1, box.height);
          pen.globalAlpha = 1;
          pen.textAlign = "left";
          if (this.right(mark.time) - last < 14) continue;
          last = this.right(mark.time);
          pen.fillText(mark.number, last + 3, MARGIN.top + box.height - 4);
        }
      }
      if (pointer[data.over] !== undefined && !data.equal) {
        pen.globalAlpha = 0.6;
        pen.fillRect(this.right(pointer[data.over]), MARGIN.top, 1, box.height);
        pen.globalAlpha = 1;
      }
    }

    position(event) {
      const frame = this.canvas.getBoundingClientRect(), { x, y } = this.range;
      const right = Math.min(Math.max(event.clientX - frame.left, MARGIN.left), MARGIN.left + this.box.width);
      const down = Math.min(Math.max(event.clientY - frame.top, MARGIN.top), MARGIN.top + this.box.height);
      return {
        x: right, y: down,
        east: x[0] + ((right - MARGIN.left) / this.box.width) * (x[1] - x[0]),
        north: y[1] - ((down - MARGIN.top) / this.box.height) * (y[1] - y[0]),
      };
    }

    onPointerMove(event) {
      const point = this.position(event);
      if (this.dragged) this.dragged[1] = point;
      pointer[this.data.over] = point.east;
      this.note.replaceChildren();
      if (this.data.equal) this.showNearest(point);
      else this.showValues(point.east);
      this.note.classList.toggle("left", point.x > MARGIN.left + this.box.width / 2);
      redraw();
    }

    showValues(x) {
      const { data } = this, abscissa = data.log ? 10 ** x : x;
      make("div", this.note, "faint", `${formatValue(abscissa)} ${data.xunit}`);
      for (const mark of data.over === "time" ? page.marks : []) {
        if (Math.abs(this.right(mark.time) - this.right(x)) < 4) make("div", this.note, "", `${mark.number}: ${mark.text}`);
      }
      for (const curve of this.visibleCurves) {
        const time = data.xs[curve.x], i = Math.min(lowerBound(time, x), time.length - 1);
        const nearest = i > 0 && x - time[i - 1] < time[i] - x ? i - 1 : i, value = curve.y[nearest];
        if (value === null || value === undefined) continue;
        const row = make("div", this.note, "", `${curve.name} ${formatValue(data.log ? 10 ** value : value)} ${data.unit}`);
        row.style.borderLeftColor = curve.colour || style("--ink");
      }
    }

    showNearest(point) {
      let best = { distance: 400 }; // [px²]
      for (const curve of this.visibleCurves) {
        const east = this.data.xs[curve.x];
        curve.y.forEach((north, i) => {
          const distance = north === null ? Infinity : (this.right(east[i]) - point.x) ** 2 + (this.up(north) - point.y) ** 2;
          if (distance < best.distance) best = { distance, curve, i, east: east[i], north };
        });
      }
      make("div", this.note, "faint", `${formatValue(point.east)} m east, ${formatValue(point.north)} m north`);
      if (!best.curve) return;
      const when = best.curve.t === undefined ? "" : `, ${formatValue(this.data.xs[best.curve.t][best.i])} s`;
      const row = make("div", this.note, "", `${best.curve.name}: ${formatValue(best.east)}, ${formatValue(best.north)} m${when}`);
      row.style.borderLeftColor = best.curve.colour || style("--ink");
    }

    onPointerLeave() {
      delete pointer[this.data.over];
      this.note.replaceChildren();
      redraw();
    }

    onPointerDown(event) {
      if (event.button) return;
      this.canvas.setPointerCapture(event.pointerId);
      this.dragged = [this.position(event), this.position(event)];
    }

    onPointerUp(event) {
      const [a, b] = this.dragged || [];
      this.dragged = null;
      if (a && Math.abs(this.position(event).x - a.x) > 6) {
        const order = (a, b) => [Math.min(a, b), Math.max(a, b)];
        if (this.data.equal) this.mapView = [order(a.east, b.east), order(a.north, b.north)];
        else views[this.data.over] = order(a.east, b.east);
      }
      redraw();
    }

    resetView() {
      this.mapView = null;
      delete views[this.data.over];
      redraw();
    }
  }

  const charts = [...document.querySelectorAll("[data-chart]")].map((box) => new Chart(box, page.charts[Number(box.dataset.chart)]));

  function redraw() {
    if (redrawPending) return;
    redrawPending = true;
    requestAnimationFrame(() => {
      redrawPending = false;
      charts.forEach((chart) => chart.draw());
    });
  }

  window.addEventListener("resize", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  redraw();
})();
