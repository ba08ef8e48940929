// Opens pages in Debian's Chromium and records their errors, warnings and requests to other origins.
import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'

const executablePath = '/usr/bin/chromium'
// Disables requests to servers other than the service under test.
const args = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** Longer than a slow machine needs to load a page, and shorter than AVA's timeout of a test. */
const TIMEOUT_MS = 60_000

/** @throws Error with the package to install if Chromium is missing */
export async function startBrowser() {
  if (!existsSync(executablePath))
    throw new Error(
      `${executablePath} does not exist: the browser tests need it, run apt-get install chromium`,
    )
  const browser = await chromium.launch({ executablePath, headless: true, args, timeout: TIMEOUT_MS })
  // One context for all pages, so that they share the cache. The certificates of the tests are self-signed.
  const context = await browser.newContext({
    viewport: { width: 1600, height: 900 },
    ignoreHTTPSErrors: true,
  })
  context.setDefaultTimeout(TIMEOUT_MS)

  return {
    close: () => browser.close(),

    /**
     * Opens a URL in a new page with a viewport of 1600 × 900.
     * @returns `problems`: console errors and warnings (policy violations included), exceptions, and requests to other
     * origins; `loads`: the number of document loads
     */
    async open(url: string) {
      const page = await context.newPage()
      const problems: string[] = []
      let loads = 0
      page.on('console', message => {
        if (message.type() === 'error' || message.type() === 'warning') problems.push(message.text())
      })
      page.on('pageerror', error => problems.push(error.message))
      page.on('request', request => {
        if (request.isNavigationRequest()) loads++
        if (new URL(request.url()).origin !== new URL(url).origin)
          problems.push(`request to another origin: ${request.url()}`)
      })
      await page.goto(url)
      return { page, problems, loads: () => loads }
    },
  }
}
