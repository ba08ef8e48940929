// What every answer says to browsers, of data and control ports alike: it is what its Content-Type says, and nothing in it
// is to be run or framed (https://owasp.org/www-project-secure-headers/). A page that people look at says what it needs.
export const securityHeaders = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
} as const
