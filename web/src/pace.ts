// How often a picture is drawn where there is no graphics card: drawing takes the processors that the rest of the page needs.

/** Least and longest time from one picture to the next, milliseconds. */
const LEAST_MS = 100;
const LONGEST_MS = 1000;
/** How long the processors rest from a picture, in times of what it took. */
const REST = 3;
/** What of WebGL tells when a picture is done. */
type Fences = Pick<WebGL2RenderingContext, "fenceSync" | "getSyncParameter" | "deleteSync" | "flush" | "SYNC_GPU_COMMANDS_COMPLETE" | "SYNC_STATUS" | "UNSIGNALED">;

/** Lets a picture begin when the one before is done and the processors have rested from it. */
export class Pace {
  private began = 0;
  private next = 0;
  private fence: WebGLSync | null = null;

  /** `gl` is the context of the pictures; `null` where a graphics card draws, which may do so at any time. */
  constructor(private readonly gl: Fences | null) {}

  /** Whether a picture may begin at this time, milliseconds. */
  may(now: number): boolean {
    const { gl, fence } = this;
    if (gl && fence) {
      if (gl.getSyncParameter(fence, gl.SYNC_STATUS) === gl.UNSIGNALED) return false;
      gl.deleteSync(fence);
      this.fence = null;
      const took = now - this.began;
      this.next = Math.min(now + LONGEST_MS, Math.max(this.began + LEAST_MS, now + REST * took));
    }
    return now >= this.next;
  }

  /** A picture began at this time, milliseconds. */
  drew(now: number): void {
    const { gl } = this;
    if (!gl) return;
    this.began = now;
    this.fence = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
    gl.flush();
    if (!this.fence) this.next = now + LEAST_MS;
  }
}
