// Runs one service for the duration of a scenario.
import assert from 'node:assert/strict'
import { type Service, type ServiceOptions, startService } from '../support/service.ts'

const MAX_LOG_LINES = 20
const MAX_LINE_LENGTH = 300

/**
 * Starts a service with two workers unless `options` says otherwise, runs `work`, and stops the service. The service
 * must stop with exit code 0.
 * @throws Error of `work`, followed by the end of the service's log
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
    const lines = service.log().trim().split('\n').slice(-MAX_LOG_LINES)
    const log = lines.map(line => line.slice(0, MAX_LINE_LENGTH)).join('\n')
    throw new Error(`${error instanceof Error ? error.message : error}\nend of the service's log:\n${log}`)
  }
}
