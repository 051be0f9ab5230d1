// The one time axis: what stretch of the window is shown, and where the cursor is. Milliseconds from its start.

import type { Page } from './data';
import { moment } from './format';

type Listener = () => void;

export class Axis {
  from = 0;
  to: number;
  /** Where the pointer is; null: nowhere. */
  cursor: number | null = null;
  private readonly views: Listener[] = [];
  private readonly cursors: Listener[] = [];

  constructor(private readonly page: Page) {
    this.to = this.whole;
  }

  /** Length of the window; one second stands in for a window that is not known. */
  get whole(): number {
    return this.page.window_ms > 0 ? this.page.window_ms : 1000;
  }

  get zoomed(): boolean {
    return this.from > 0 || this.to < this.whole;
  }

  onView(listener: Listener): void {
    this.views.push(listener);
  }

  onCursor(listener: Listener): void {
    this.cursors.push(listener);
  }

  show(from: number, to: number): void {
    const least = Math.min(this.whole, 20);
    const length = Math.min(Math.max(to - from, least), this.whole);
    this.from = Math.min(Math.max(from, 0), this.whole - length);
    this.to = this.from + length;
    this.views.forEach((listener) => listener());
    this.cursors.forEach((listener) => listener());
  }

  reset(): void {
    this.show(0, this.whole);
  }

  point(cursor: number | null): void {
    this.cursor = cursor === null ? null : Math.min(Math.max(cursor, 0), this.whole);
    this.cursors.forEach((listener) => listener());
  }

  /** Shows a stretch with some room around it. */
  reveal(from: number, to: number): void {
    const room = Math.max((to - from) * 0.6, this.whole * 0.02, 250);
    this.show(from - room, to + room);
    this.point((from + to) / 2);
  }

  /** Moments for labels, at most one for each `pixels`. */
  ticks(width: number, pixels: number): { at: number; step: number }[] {
    const length = this.to - this.from;
    const steps = [
      1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5,
      432e5,
    ];
    const least = (length * pixels) / Math.max(width, 1);
    const step = steps.find((candidate) => candidate >= least) ?? length;
    const ticks = [];
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) ticks.push({ at, step });
    return ticks;
  }

  /** Time of day on the recorded machine: `11:27:03.512`. */
  clock(at: number, digits = 3): string | null {
    if (this.page.wall_ms === null) return null;
    const date = new Date(this.page.wall_ms + at + this.page.utc_offset * 1000);
    return Number.isNaN(date.getTime()) ? null : date.toISOString().slice(11, digits > 0 ? 20 + digits : 19);
  }

  label(at: number): string {
    const clock = this.clock(at);
    return clock === null ? moment(at) : `${moment(at)} · ${clock}`;
  }
}
