// Generates self-signed certificates.
import { hostname } from 'node:os'
import { generate } from 'selfsigned'

const YEAR_MS = 365 * 86_400_000

/** Returns a key and a certificate for this machine and localhost, as PEM in one text. They are valid for a year. */
export async function generateCertificate(): Promise<string> {
  const name = hostname()
  const generated = await generate([{ name: 'commonName', value: name }], {
    keyType: 'ec',
    algorithm: 'sha256',
    notAfterDate: new Date(Date.now() + YEAR_MS),
    extensions: [
      {
        name: 'subjectAltName',
        altNames: [
          { type: 2, value: 'localhost' },
          { type: 2, value: name },
          { type: 7, ip: '127.0.0.1' },
          { type: 7, ip: '::1' },
        ],
      },
    ],
  })
  return `${generated.private}\n${generated.cert}\n`
}
