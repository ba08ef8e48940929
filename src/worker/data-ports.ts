// The data ports of a worker: one for each port in the settings, in the states that the supervisor wants.
import type { Config } from '../config/config.ts'
import { exitCodes, FatalError } from '../core/exit-codes.ts'
import type { SocketHandle } from '../core/listen.ts'
import type { DesiredState } from '../core/messages.ts'
import { createDataPort, type DataPort, type DataPortOptions } from '../listener/data-port.ts'
import type { TlsSettings } from '../listener/server.ts'

interface DataPortsOptions extends Pick<DataPortOptions, 'listener' | 'requestLog'> {
  readonly config: Config
  /** The desired state to begin with. */
  readonly desired: DesiredState
  requestSocket(label: string): Promise<SocketHandle>
}

/** Returns the certificate of a port and the ticket keys; undefined for a port without TLS. */
function tlsOf({ keyPairs, ticketKeys }: DesiredState, label: string): TlsSettings | undefined {
  const keyPair = keyPairs[label]
  return keyPair && { keyPair, ticketKeys: Buffer.from(ticketKeys, 'base64') }
}

/**
 * Creates the data ports, which do not listen yet.
 * @throws FatalError if the ports in the settings differ from those of the supervisor, which a restart of the service mends
 */
export function createDataPorts({ config, desired, requestSocket, ...options }: DataPortsOptions) {
  const samePorts = config.ports.every(({ label, port, protocol, proxyProtocol = false }) => {
    const wanted = desired.ports[label]
    return (
      wanted?.port === port &&
      (protocol === 'https') === Object.hasOwn(desired.keyPairs, label) &&
      (wanted.proxyProtocol ?? proxyProtocol) === proxyProtocol
    )
  })
  if (!samePorts || config.ports.length !== Object.keys(desired.ports).length)
    throw new FatalError(
      exitCodes.noWorkers,
      'ports: changed ports require a restart; a reload cannot apply them',
    )
  const ports = config.ports.map(port =>
    createDataPort({
      ...options,
      port,
      config,
      requestSocket: () => requestSocket(port.label),
      tls: tlsOf(desired, port.label),
    }),
  )
  let open: readonly DataPort[] = []

  return {
    /** Uses the certificates and the states of `desired`. */
    apply(desired: DesiredState): void {
      for (const port of ports) {
        const tls = tlsOf(desired, port.label)
        if (tls !== undefined) port.useTls(tls)
        const wanted = desired.ports[port.label]
        port.setState(wanted?.state ?? 'serving', wanted)
      }
    },

    /** Resolves when every port listens. @throws FatalError if one cannot be opened */
    async listen(): Promise<void> {
      open = ports
      await Promise.all(ports.map(port => port.listen()))
    },

    /** Returns the ports that listen, or did. */
    open: (): readonly DataPort[] => open,

    close(): void {
      for (const port of ports) port.setState('closing')
    },

    /** Resolves when every port is closed and its last connection has ended. */
    closed: Promise.all(ports.map(port => port.closed)),
  }
}
