// Debian's Chromium, for tests of what people see; it remembers whatever goes wrong in a page.
import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'

const executablePath = '/usr/bin/chromium'
// It speaks to the service under test, and to nobody else.
const args = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** @throws Error that names the package to install where there is no Chromium */
export async function startBrowser() {
  if (!existsSync(executablePath))
    throw new Error(`there is no ${executablePath}: apt-get install chromium, for the tests of the pages`)
  const browser = await chromium.launch({ executablePath, headless: true, args })

  return {
    close: () => browser.close(),

    /**
     * Opens a page of its own in a window of 1600 × 900.
     * @returns `problems`: errors and warnings of the console (a violated policy is one), exceptions, and requests
     * to any other origin; `loads`: how often a document was loaded
     */
    async open(url: string) {
      // Tests make their own certificates.
      const page = await browser.newPage({ viewport: { width: 1600, height: 900 }, ignoreHTTPSErrors: true })
      const problems: string[] = []
      let loads = 0
      page.on('console', message => {
        if (message.type() === 'error' || message.type() === 'warning') problems.push(message.text())
      })
      page.on('pageerror', error => problems.push(error.message))
      page.on('request', request => {
        if (request.isNavigationRequest()) loads++
        if (new URL(request.url()).origin !== new URL(url).origin) problems.push(`asked ${request.url()}`)
      })
      await page.goto(url)
      return { page, problems, loads: () => loads }
    },
  }
}
