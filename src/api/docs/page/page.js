// Shows the OpenAPI document of this server with swagger-ui, in the preferred color scheme of the browser.
const dark = matchMedia('(prefers-color-scheme: dark)')
const applyColorScheme = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', applyColorScheme)
applyColorScheme()

/** Filters the operations by a phrase in their path or description object: a path, a field, an error code. */
const search = system => ({
  fn: {
    opsFilter(tags, phrase) {
      // Searches the original document: in the resolved one, only expanded operations have their references resolved.
      const paths = system.specSelectors.specJson().get('paths')
      const matches = ({ path, method }) =>
        JSON.stringify([path, paths.getIn([path, method])])
          .toLowerCase()
          .includes(phrase.toLowerCase())
      return tags
        .map(tag =>
          tag.update('operations', operations =>
            operations.filter(operation => matches(operation.toObject())),
          ),
        )
        .filter(tag => tag.get('operations').size > 0)
    },
  },
})

/** Shows a message if a search has no results. swagger-ui would say that the document has no operations. */
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

/** Puts the address of this server into the commands of the introduction and into the list of servers. */
const serverAddress = () => ({
  statePlugins: {
    spec: {
      wrapActions: {
        updateSpec: updateSpec => text =>
          updateSpec(text.replaceAll(/http:\/\/(localhost|127\.0\.0\.1):8000/g, location.origin)),
      },
    },
  },
})

/** Shows the examples of a parameter. swagger-ui itself shows an example only as a value that it also sends. */
const parameterExamples = system => ({
  wrapComponents: {
    parameterRow: ParameterRow => properties => {
      const examples = properties.param.getIn(['schema', 'examples'])?.toJS() ?? []
      const shown = examples.map(example => `\`${example}\``).join(' or ')
      const param = properties.param.update('description', text =>
        shown ? `${text} For example, ${shown}.` : text,
      )
      return system.React.createElement(ParameterRow, { ...properties, param })
    },
  },
})

/** Folds the filters of a GET of a collection, which are its last query parameters. The filter `id` is the first of them. */
const foldedFilters = system => {
  const create = system.React.createElement
  const Toggle = () => {
    const [shown, setShown] = system.React.useState(false)
    const toggle = { className: 'btn', 'aria-expanded': shown, onClick: () => setShown(!shown) }
    const button = create('button', toggle, shown ? 'Hide the filters' : 'Show the filters')
    return create('tr', { className: 'filters' }, create('td', { colSpan: 2 }, button))
  }
  return {
    wrapComponents: {
      parameterRow: ParameterRow => properties => {
        const { param, pathMethod } = properties
        const isFirst = pathMethod[1] === 'get' && param.get('in') === 'query' && param.get('name') === 'id'
        return create(
          system.React.Fragment,
          null,
          isFirst && create(Toggle),
          create(ParameterRow, properties),
        )
      },
    },
  }
}

SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#document',
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  filter: true,
  // Disables the request to the online validator of swagger.io.
  validatorUrl: null,
  plugins: [search, nothingFound, serverAddress, parameterExamples, foldedFilters],
  onComplete() {
    const input = document.querySelector('.operation-filter-input')
    // Adds a clear button. Escape clears the input, too.
    input.type = 'search'
    input.placeholder = 'Search paths, fields and error codes'
    input.setAttribute('aria-label', 'Search')
  },
})
