// Limits of a scale of delays, so that its colours differ where the scenario's delays do. No browser is needed.

/** Round limits around two values: 2.6 and 19.3 give 2 and 20. */
export function rounded(low: number, high: number): [number, number] {
  if (!(high > 0)) return [0, 1];
  const span = Math.max(high - low, high * 0.05);
  const power = 10 ** Math.floor(Math.log10(span / 5));
  const step = power * ([1, 2, 5, 10].find((one) => one * power >= span / 10) ?? 10);
  const from = low < 0.1 * high ? 0 : Math.floor(low / step) * step;
  // The division leaves digits behind that no reader wants.
  const clean = (value: number) => Number(value.toPrecision(6));
  return [clean(from), clean(Math.max(Math.ceil(high / step) * step, from + step))];
}

/** The range of the delays of all links so far. It only grows, so that a colour keeps its meaning while a scenario plays. */
export class DelayScale {
  private least = Infinity;
  private most = -Infinity;
  /** Milliseconds. */
  limits: [number, number] = [0, 1];

  /** Adds the delays of a step's links, milliseconds. Returns whether the limits are others now. */
  take(delaysMs: Iterable<number>): boolean {
    for (const delay of delaysMs) {
      if (delay < this.least) this.least = delay;
      if (delay > this.most) this.most = delay;
    }
    if (this.most < 0) return false;
    const [low, high] = rounded(this.least, this.most);
    if (low === this.limits[0] && high === this.limits[1]) return false;
    this.limits = [low, high];
    return true;
  }

  /** The place of a delay in the range: 0 to 1. */
  share(delayMs: number): number {
    const [low, high] = this.limits;
    return (delayMs - low) / (high - low);
  }
}
