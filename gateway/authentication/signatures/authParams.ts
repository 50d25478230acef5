const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const QUOTED = '"((?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t \\x21-\\x7e\\x80-\\xff])*)"'
const PARAM = new RegExp(`(${TOKEN})[ \\t]*=[ \\t]*(?:${QUOTED}|(${TOKEN}))[ \\t]*(,[ \\t]*|$)`, 'y')

/**
 * Parameters of a credential (`auth-param`, RFC 9110 §11.2) by their lower-case names; null: something else. Stricter than a
 * list needs be: no name twice, no empty element.
 */
export function authParams(text: string): Map<string, string> | null {
  const params = new Map<string, string>()
  let end = 0
  let more = true
  while (more) {
    PARAM.lastIndex = end
    const found = PARAM.exec(text)
    if (found === null) return null
    const [whole, name, quoted, token, separator] = found
    const lower = name!.toLowerCase()
    if (params.has(lower)) return null
    params.set(lower, token ?? quoted!.replace(/\\(.)/g, '$1'))
    end += whole.length
    more = separator !== ''
  }
  return params
}
