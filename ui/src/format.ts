// Numbers with units, as crates/biopsy-report/src/units.rs writes them.

export function number(value: number): string {
  if (!Number.isFinite(value)) return '?';
  const size = Math.abs(value);
  if (size >= 1e15) return value.toExponential(2);
  if (size >= 99.95) return Math.round(value).toLocaleString('en-US');
  if (size >= 9.995) return trim(value.toFixed(1));
  if (size >= 0.9995 || size === 0) return trim(value.toFixed(2));
  if (size >= 0.0005) return trim(value.toFixed(3));
  return value.toExponential(1);
}

function trim(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

export function share(value: number): string {
  const percent = value * 100;
  if (!Number.isFinite(percent)) return '?';
  if (Math.abs(percent) >= 99.95) return `${percent.toFixed(0)} %`;
  if (percent !== 0 && Math.abs(percent) < 0.05) return '<0.1 %';
  return `${percent.toFixed(1)} %`;
}

export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (Math.abs(value) >= 1023.5 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  return `${number(unit === 0 ? Math.round(value) : value)} ${units[unit]}`;
}

export function seconds(value: number): string {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return '?';
  if (size === 0) return '0 s';
  if (size < 0.9995e-6) return `${number(value * 1e9)} ns`;
  if (size < 0.9995e-3) return `${number(value * 1e6)} µs`;
  if (size < 0.9995) return `${number(value * 1e3)} ms`;
  if (size < 99.95) return `${number(value)} s`;
  const whole = Math.round(size);
  const sign = value < 0 ? '-' : '';
  const two = (part: number) => String(part).padStart(2, '0');
  if (whole < 3600) return `${sign}${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  return `${sign}${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
}

export const ns = (value: number): string => seconds(value / 1e9);
export const count = (value: number): string => Math.round(value).toLocaleString('en-US');

export function counted(value: number, one: string, many: string): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function reading(unit: string, value: number): string {
  switch (unit) {
    case 'per-second':
      return `${number(value)}/s`;
    case 'cores':
      return number(value) === '1' ? '1 core' : `${number(value)} cores`;
    case 'ratio':
      return share(value);
    case 'bytes':
      return bytes(value);
    case 'bytes-per-second':
      return `${bytes(value)}/s`;
    case 'milliseconds':
      return seconds(value / 1e3);
    default:
      return number(value);
  }
}

/** A moment of the window, milliseconds: `12.34 s`, `2:05`. */
export function moment(ms: number, step = 0): string {
  const value = ms / 1e3;
  if (Math.abs(value) < 120) {
    const digits = step >= 1000 ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : step > 0 ? 3 : 2;
    return `${value.toFixed(digits)} s`;
  }
  const whole = Math.abs(value);
  const rest = step >= 1000 ? String(Math.floor(whole % 60)).padStart(2, '0') : (whole % 60).toFixed(1).padStart(4, '0');
  const minutes = Math.floor(whole / 60);
  const sign = value < 0 ? '-' : '';
  return minutes < 60
    ? `${sign}${minutes}:${rest}`
    : `${sign}${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, '0')}:${rest}`;
}
