// Reads records after a fault, in order to find lost writes.
import type { Client } from '../support/http.ts'
import { until } from '../support/until.ts'

const MAX_RECOVERY_MS = 15_000

/**
 * Sends a GET until the answer is not that of an unavailable service or proxy. Databases that have come back can agree
 * on their cluster once more; no record is lost by that.
 * @throws Error after 15 s
 */
export const readBack = (api: Client, path: string) =>
  until(
    async () => {
      const answer = await api.get(path)
      return ![502, 503, 504].includes(answer.status) && answer
    },
    { withinMs: MAX_RECOVERY_MS, everyMs: 100, describe: () => `GET ${path} is answered` },
  )
