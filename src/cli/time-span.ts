// Time spans as text for a terminal.

/** Formats a time span in one or two units, such as `2 h 5 min`. */
export function formatSpan(ms: number): string {
  const seconds = Math.floor(ms / 1000)
  const counts = [
    { count: Math.floor(seconds / 86_400), unit: 'd' },
    { count: Math.floor(seconds / 3600) % 24, unit: 'h' },
    { count: Math.floor(seconds / 60) % 60, unit: 'min' },
    { count: seconds % 60, unit: 's' },
  ]
  const largest = counts.findIndex(({ count }) => count > 0)
  if (largest === -1) return '0 s'
  const shown = counts.slice(largest, largest + 2).filter(({ count }) => count > 0)
  return shown.map(({ count, unit }) => `${count} ${unit}`).join(' ')
}
