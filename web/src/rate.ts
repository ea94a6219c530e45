// The rate of a counter that only rises.

/**
 * Rates between samples of a counter, over the times at which its owner sampled it. The page gets the same sample several times and
 * late, so its own clock would turn a constant rate into zeros and spikes.
 */
export class Rate {
  private last: { count: number; atS: number } | null = null;

  /** Takes a sample: the rate since the one before, per second. `null` for the first, for one that was taken already, and after a restart. */
  take(count: number, atS: number): number | null {
    const { last } = this;
    if (last && atS === last.atS) return null;
    this.last = { count, atS };
    return last && atS > last.atS && count >= last.count ? (count - last.count) / (atS - last.atS) : null;
  }
}
