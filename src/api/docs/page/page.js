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

/** Says that a search has found nothing, where swagger-ui says that there is nothing to find. */
const nothingFound = system => ({
  wrapComponents: {
    operations: Operations => properties => {
      const create = system.React.createElement
      const phrase = system.layoutSelectors.currentFilter()
      if (typeof phrase !== 'string' || phrase === '' || system.specSelectors.taggedOperations().size > 0)
        return create(Operations, properties)
      const clear = () => system.layoutActions.updateFilter('')
      return create(
        'p',
        { className: 'nothing-found', role: 'status' },
        `Nothing found for '${phrase}'. `,
        create('button', { className: 'btn', onClick: clear }, 'Clear the search'),
      )
    },
  },
})

/** Shows the examples of a parameter; swagger-ui shows only one that it also sends. */
const parameterExamples = system => ({
  wrapComponents: {
    parameterRow: ParameterRow => properties => {
      const examples = properties.param.getIn(['schema', 'examples'])?.toJS() ?? []
      const shown = examples.map(example => `\`${example}\``).join(' or ')
      const param = properties.param.update('description', text =>
        shown ? `${text} Such as ${shown}.` : text,
      )
      return system.React.createElement(ParameterRow, { ...properties, param })
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
  // Nobody else is told of the document.
  validatorUrl: null,
  plugins: [search, nothingFound, parameterExamples],
  onComplete() {
    const input = document.querySelector('.operation-filter-input')
    // Has a cross to clear it, as Escape does.
    input.type = 'search'
    input.placeholder = 'Search: a path, a field, an error code'
    input.setAttribute('aria-label', 'Search')
  },
})
