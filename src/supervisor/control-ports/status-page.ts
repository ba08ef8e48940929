// The status page: one static HTML file. Its Content-Security-Policy allows only its own inline script and style, requests
// to its own origin, and no framing.
import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** Returns the CSP source expressions that allow exactly the inline blocks of this element. */
function hashesOf(html: string, element: 'script' | 'style'): string {
  const blocks = [...html.matchAll(new RegExp(`<${element}[^>]*>(.*?)</${element}>`, 'gs'))]
  return blocks.map(([, text = '']) => `'sha256-${hash('sha256', text, 'base64')}'`).join(' ')
}

/** @throws Error if status-page.html is missing */
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
    // No text from the service can be parsed as markup: the page creates no Trusted Types policy.
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ]
  return {
    body,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': policy.join('; '),
      'Referrer-Policy': 'no-referrer',
    },
  }
}
