// Shows the document of this server with swagger-ui, in the colours that the reader prefers.
const dark = matchMedia('(prefers-color-scheme: dark)')
const paint = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', paint)
paint()

/** Keeps the operations that have the phrase in anything that is said of them: a path, a field, an error code. */
const search = system => ({
  fn: {
    opsFilter(tags, phrase) {
      // The document as it came: an operation that is open has its references filled in, another has not.
      const paths = system.specSelectors.specJson().get('paths')
      const has = ({ path, method }) =>
        JSON.stringify([path, paths.getIn([path, method])])
          .toLowerCase()
          .includes(phrase.toLowerCase())
      return tags
        .map(tag => tag.update('operations', operations => operations.filter(one => has(one.toObject()))))
        .filter(tag => tag.get('operations').size > 0)
    },
  },
})

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
  plugins: [search],
  onComplete() {
    const input = document.querySelector('.operation-filter-input')
    input.placeholder = 'Search: a path, a field, an error code'
    input.setAttribute('aria-label', 'Search')
  },
})
