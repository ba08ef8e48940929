// The security headers of every response on data and control ports: no content sniffing, no active content, no
// framing (https://owasp.org/www-project-secure-headers/). HTML pages replace the policy with their own.
export const securityHeaders = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
} as const
