// The query parameters of one request. All faults are reported at once, each with the allowed values.
import { type Fault, Faults } from '../../core/api-error.ts'
import { quoted, shortened } from '../../core/quoted.ts'
import { MAX_ID } from '../../model/resource.ts'
import { inUri, type Pair, parseQueryString } from './query-string.ts'

/** What is wrong with a value that is not an id. */
export const notAnId = (value: string) =>
  `${quoted(value)} is not an id; ids are integers from 1 to ${MAX_ID} without leading zeros`

/** The parameters of one request, and their faults. */
export class Parameters {
  readonly pairs: readonly Pair[]
  readonly faults = new Faults()
  private readonly values = new Map<string, string>()

  /** @param once the names of the parameters that must not be repeated, in addition to `repeatable` */
  constructor(queryString: string, repeatable: readonly string[], once: readonly string[] = []) {
    this.pairs = parseQueryString(queryString, this.faults)
    for (const { name, value } of this.pairs) {
      if (repeatable.includes(name)) continue
      if (!once.includes(name)) this.unknown(name, repeatable, once)
      else if (this.values.has(name)) this.fault(name, 'must not be repeated')
      else this.values.set(name, value)
    }
  }

  private unknown(parameter: string, repeatable: readonly string[], once: readonly string[]): void {
    this.faults.add(() => {
      const allowed = [...repeatable, ...once]
      const hint = allowed.length === 0 ? 'no parameters are allowed here' : `allowed: ${allowed.join(', ')}`
      const message = `unknown parameter ${quoted(parameter)}; ${hint}`
      return { parameter: shortened(parameter), code: 'unknown_parameter', message }
    })
  }

  fault(parameter: string, message: string, code: Fault['code'] = 'invalid_parameter'): void {
    this.faults.add(() => ({ parameter, code, message: `${parameter}: ${message}` }))
  }

  /** Returns the value of a parameter that must not be repeated. */
  get(name: string): string | undefined {
    return this.values.get(name)
  }

  /**
   * Parses an integer from `min` to `max`. Above a maximum that is not MAX_ID, the code is `limit_exceeded`.
   * @param word what the caller accepts instead of an integer, for the message
   */
  integer(name: string, min: number, max: number, defaultValue: number, word?: string): number {
    const value = this.values.get(name)
    if (value === undefined) return defaultValue
    const number = /^(0|[1-9][0-9]*)$/.test(value) ? Number(value) : Number.NaN
    if (number >= min && number <= max) return number
    const code = number > max && max < MAX_ID ? 'limit_exceeded' : 'invalid_parameter'
    const is = word === undefined ? 'is not' : `is neither ${quoted(word)} nor`
    this.fault(name, `${quoted(value)} ${is} an integer from ${min} to ${max}`, code)
    return min
  }

  /** Returns the parameters as they are in a URI, each followed by `&`, except for those with these names. */
  others(except: readonly string[]): string {
    return this.pairs.map(({ name, raw }) => (except.includes(name) ? '' : `${inUri(raw)}&`)).join('')
  }
}

/** Rejects all parameters except `allowed`, whose values are ignored. @throws ApiError with all faults */
export function rejectUnknownParameters(queryString: string, allowed: readonly string[]): void {
  if (queryString !== '') new Parameters(queryString, allowed).faults.throw()
}

/** Rejects all parameters. @throws ApiError with all faults */
export const parseNoQuery = (queryString: string): void => rejectUnknownParameters(queryString, [])
