// Runs one service for the duration of a scenario.
import assert from 'node:assert/strict'
import { type Service, type ServiceOptions, startService } from '../support/service.ts'

const MAX_LOG_LINES = 20
const MAX_LINE_LENGTH = 300

/**
 * Starts a service with two workers unless `options` says otherwise, runs `work`, and stops the service. The service
 * must stop with exit code 0.
 * @throws Error of `work`, followed by lines of the service's log
 */
export async function withService<T>(
  options: ServiceOptions,
  work: (service: Service) => Promise<T>,
): Promise<T> {
  const service = await startService({ workers: 2, ...options })
  try {
    const result = await work(service)
    assert.equal(await service.stop(), 0)
    return result
  } catch (error) {
    await service.stop()
    const message = error instanceof Error ? error.message : String(error)
    const [, requestId] = /"request_id":"([^"]+)"/.exec(message) ?? []
    const lines = service.log().trim().split('\n')
    const ofRequest = lines.filter(line => requestId !== undefined && line.includes(requestId))
    const log = [...ofRequest, ...lines.slice(-MAX_LOG_LINES)].map(line => line.slice(0, MAX_LINE_LENGTH))
    throw new Error(
      `${message}\nthe service's log: the request in this message, then the end\n${log.join('\n')}`,
    )
  }
}
