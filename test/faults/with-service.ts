// One service for the length of a scenario, whose workers must all be there in the end unless the scenario kills them.
import assert from 'node:assert/strict'
import { type Service, type ServiceOptions, startService } from '../support/service.ts'

const lastLines = 20
const lineLength = 300

/** @throws Error of `work`, with the last words of the service's log */
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
    const lines = service.log().trim().split('\n').slice(-lastLines)
    const log = lines.map(line => line.slice(0, lineLength)).join('\n')
    throw new Error(`${error instanceof Error ? error.message : error}\nThe log ends with\n${log}`)
  }
}
