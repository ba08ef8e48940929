// The status page: one file, sent as it stands. Its policy lets nothing run, load or frame it but what it brings itself.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** The source expressions of a policy that allow exactly the inline blocks of this element. */
function hashesOf(html: string, element: 'script' | 'style'): string {
  const blocks = [...html.matchAll(new RegExp(`<${element}[^>]*>(.*?)</${element}>`, 'gs'))]
  return blocks
    .map(([, text = '']) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`)
    .join(' ')
}

/** @throws Error where the file beside this one is missing */
export function createPage(): { body: string; headers: Record<string, string> } {
  const body = readFileSync(new URL('./status-page.html', import.meta.url), 'utf8')
  const policy = [
    "default-src 'none'",
    `script-src ${hashesOf(body, 'script')}`,
    `style-src ${hashesOf(body, 'style')}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    // Text stays text: the browser refuses to parse any of it as markup.
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ]
  return {
    body,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': policy.join('; '),
      'X-Content-Type-Options': 'nosniff',
      'Referrer-Policy': 'no-referrer',
      'Cache-Control': 'no-store',
    },
  }
}
