// Shows the document of this server with swagger-ui, in the colours that the reader prefers.
const dark = matchMedia('(prefers-color-scheme: dark)')
const paint = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', paint)
paint()

/** Keeps the operations that have the phrase in any of what is said of them: a path, a field, a code of failures. */
function opsFilter(tags, phrase) {
  const wanted = phrase.toLowerCase()
  const has = operation => JSON.stringify(operation).toLowerCase().includes(wanted)
  return tags
    .map(tag => tag.update('operations', operations => operations.filter(has)))
    .filter(tag => tag.get('operations').size > 0)
}

SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#document',
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  filter: true,
  tryItOutEnabled: true,
  // Nobody else is told of the document.
  validatorUrl: null,
  plugins: [{ fn: { opsFilter } }],
  onComplete() {
    const search = document.querySelector('.operation-filter-input')
    search.placeholder = 'Search: a path, a field, an error code'
    search.setAttribute('aria-label', 'Search')
  },
})
