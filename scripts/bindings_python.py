# SPDX-License-Identifier: BSD-3-Clause
"""The Python module of the engine from graticule.h, and the reference page of the Python package; for scripts/bindings."""
import ast
import keyword
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / 'nn_bridge/python/graticule'
PAGE = ROOT / 'docs/reference/python.md'
# In Python by other means: started at the first call and ended with the program, errors as exceptions.
BY_HAND = {'gr_init', 'gr_finalize', 'gr_error_text', 'gr_error_rule', 'gr_error_status', 'gr_comm_create', 'gr_comm_mpi', 'gr_field_dense'}
# Freed by all ranks together, or not by themselves.
COLLECTIVE = {'gr_comm', 'gr_teams', 'gr_writer', 'gr_checkpoint_writer', 'gr_pending', 'gr_file', 'gr_checkpoint', 'gr_checkpoints'}
# Numbers of elements that no argument of the caller has.
COUNTS = {'gr_cuts_sizes.num_parts': 'self.num_parts()', 'gr_file_extents.ndim': 'self.ndim(variable)',
          'gr_file_dimension.ndim': 'self.ndim(variable)', 'gr_comm_nodes.num_ranks': 'self.size()',
          'gr_halo_border.most_boxes': '2 * self._ndim', 'gr_repartition_source.ndim': "self._keep['from']._ndim"}
HINTS = {'int': 'int', 'int64_t': 'int', 'double': 'float', 'MPI_Fint': 'Any', 'char': 'str', 'void': 'int', 'gr_field': 'Fields'}
# Methods that the header does not have.
MORE = {'gr_node_memory': '''    def array(self, shape: Sequence[int], dtype: Any = np.float64) -> np.ndarray:
        """An array at its beginning. The memory lives as long as arrays in it, unless it is closed."""
        return _engine.array_in(self, shape, dtype)'''}


def py(name):
    return name + '_' if keyword.iskeyword(name) else name


def camel(c_name):
    return ''.join(word.capitalize() for word in c_name.removeprefix('gr_').split('_'))


class Method:
    """Where a function is in Python, its arguments, and what it returns."""

    def __init__(self, api, name, text, arguments):
        self.api, self.name, self.text, self.arguments = api, name, text, arguments
        first, last = arguments[0] if arguments else None, arguments[-1] if arguments else None
        handle = last.base if last and api.is_handle(last) and last.has('out') else None
        self.owner, self.kind, short = None, 'function', name.removeprefix('gr_')
        if handle and name.startswith(handle + '_'):
            self.owner, self.kind, short = handle, 'classmethod', name.removeprefix(handle + '_')
        elif first and api.is_handle(first):
            self.owner, self.kind = first.base, 'method'
            word = first.base.removeprefix('gr_')
            for prefix in (word + '_', word.split('_')[0].rstrip('s') + '_'):
                if short.startswith(prefix):
                    short = short.removeprefix(prefix)
                    break
        self.short = short.removesuffix('_f')
        self.counts = {}
        inputs = [a for a in arguments if a.has('in', 'inout') and not (a.has('inout') and api.is_struct(a))]
        shown = []
        for a in inputs[1:] if self.kind == 'method' else inputs:
            if self.expression(a):
                self.counts[a.name] = self.expression(a)
            elif not a.has('count') or not self.is_counted(a):
                shown.append(a)
        self.shown = [a for a in shown if not self.default(a)] + [a for a in shown if self.default(a)]

    def is_counted(self, a):
        """Whether an array of the caller has as many elements."""
        by_name = {x.name: x for x in self.arguments}
        return any(by_name[n].has('in') for n in a.tags['count'])

    def expression(self, a):
        if f'{self.name}.{a.name}' in COUNTS:
            return COUNTS[f'{self.name}.{a.name}']
        by_name = {x.name: x for x in self.arguments}
        if a.has('count') and a.name == 'ndim' and self.kind == 'method' and \
                not any(by_name[n].has('in') and not by_name[n].has('optional') for n in a.tags['count']):
            return 'self._ndim'
        return None

    def default(self, a):
        if a.has('optional'):
            return 'None'
        if a.has('count'):
            return '64' if a.name.startswith('most_') else ''
        if not a.has('default'):
            return ''
        value = 'False' if a.has('flag') else a.tags['default'][0]
        return f'{camel(a.base)}.{self.enumerator(a.base, value)}' if self.api.is_enum(a) else value

    def enumerator(self, base, value):
        """The Python name of a C enumerator that is given by name or by number."""
        values = dict(self.api.enums)[base]
        return shortened(values)[next(i for i, (n, v) in enumerate(values) if value in (n, str(v)))]

    def hint(self, a):
        if a.has('flag'):
            kind = 'bool'
        elif self.api.is_handle(a) or self.api.is_struct(a) and a.base != 'gr_field' or self.api.is_enum(a):
            kind = f"'{camel(a.base)}'"
        else:
            kind = HINTS[a.base]
        if a.base != 'gr_field' and (a.axis_count or a.has('values', 'boxes')):
            kind = f'Sequence[{kind}]' if not a.has('boxes') else 'Any'
            if self.api.is_struct(a):
                kind = f"Union['{camel(a.base)}', {kind}]"
            elif a.base == 'char':
                kind = f'Union[str, {kind}]'
        return f'Optional[{kind}]' if a.has('optional') else kind

    def returned(self):
        outs = [a for a in self.arguments if a.has('out') or a.has('inout') and self.api.is_struct(a)]
        outs = [a for a in outs if not (a.name.startswith('num_') and any(b.name == 'most_' + a.name[4:] for b in self.arguments))]
        hints = []
        for a in outs:
            hint = 'np.ndarray' if a.axis_count or a.has('values', 'boxes') else self.hint(a).replace('Fields', 'RawField')
            hints.append(f'Optional[{hint}]' if 'NULL where' in a.text else hint)
        return outs, 'None' if not hints else hints[0] if len(hints) == 1 else f"Tuple[{', '.join(hints)}]"

    def signature(self):
        first = {'method': ['self'], 'classmethod': ['cls'], 'function': []}[self.kind]
        given = [f'{py(a.name)}: {self.hint(a)}' + (f' = {self.default(a)}' if self.default(a) else '') for a in self.shown]
        return ', '.join(first + given), self.returned()[1]

    def doc(self):
        text = [re.sub(r'`gr_(\w+)`', r'`\1`', line) for line in self.text]
        lines = [line for line in text if line]
        first = [a for a in self.shown]
        outs = self.returned()[0]
        notes = [f'{py(a.name)}: {plain(a.text)}.' for a in first] + [f'Returns {a.name}: {plain(a.text)}.' for a in outs]
        return lines + [''] * bool(notes) + notes if notes else lines

    def spec(self):
        rows = []
        for a in self.arguments:
            tags = ', '.join(' '.join([t, *v]) for t, v in a.tags.items() if t not in ('default', 'wide', 'words', 'c', 'index', 'named'))
            rows.append(f"    ('{a.name}', '{a.type}', '{tags}')")
        return f"_{self.name.removeprefix('gr_').upper()} = _engine.function(\n    '{self.name}'" + \
            ''.join(',\n' + row for row in rows) + ')'

    def body(self):
        indent = '' if self.kind == 'function' else '    '
        arguments, result = self.signature()
        lines = ['@classmethod'] if self.kind == 'classmethod' else []
        lines += wrapped(f'def {self.short}({arguments}) -> {result}:')
        doc = self.doc()
        lines.append(f'    """{doc[0]}' + ('"""' if len(doc) == 1 else ''))
        for line in doc[1:]:
            lines += [f'    {part}' for part in textwrap.wrap(line, 120)] or ['']
        if len(doc) > 1:
            lines.append('    """')
        values = (["'self': self"] if self.kind == 'method' else []) + [f"'{n}': {e}" for n, e in self.counts.items()]
        values += [f"'{a.name}': {'handle_of(mpi)' if a.base == 'MPI_Fint' else py(a.name)}" for a in self.shown]
        lines += wrapped(f"    return _{self.name.removeprefix('gr_').upper()}({{{', '.join(values)}}})")
        return [(indent + line).rstrip() for line in lines]


def plain(text):
    return re.sub(r'`gr_(\w+)`', r'`\1`', text).replace('NULL', 'None').rstrip('.')


def wrapped(line):
    """Lines of at most 120 characters; what follows the arguments stays with the last one."""
    head, arrow, tail = line.partition(') -> ')
    indent = re.match(r' *', line).group()
    at = line.index('(') + 1
    lines = textwrap.wrap(head + arrow.replace(' ', '\1') + tail.replace(' ', '\1'), 120, break_long_words=False,
                          subsequent_indent=' ' * at if at < 50 else indent + '    ')
    return [one.replace('\1', ' ') for one in lines]


def shortened(values):
    """Names of an enumeration without what they have in common."""
    names = [v for v, _ in values]
    prefix = names[0]
    while not all(n.startswith(prefix) for n in names):
        prefix = prefix[:prefix[:-1].rfind('_') + 1]
    return [n.removeprefix(prefix) for n in names]


def enum_text(name, values):
    lines = [f"@_engine.enumeration('{name}')", f'class {camel(name)}(enum.IntEnum):', f'    """{name} of graticule.h."""']
    return '\n'.join(lines + [f'    {n} = {v}' for n, (_, v) in zip(shortened(values), values)])


def struct_text(api, name, members):
    kinds = {'int': 'c_int', 'int64_t': 'c_int64', 'double': 'c_double', 'size_t': 'c_size_t', 'void*': 'c_void_p'}
    sizes = {'GR_MAX_AXES': 8, 'GR_MAX_DIRECTIONS': 32}
    fields, notes, defaults = [], [], []
    for m in members:
        kind = 'ctypes.' + ('c_int' if api.is_enum(m) else kinds[m.type])
        for size in reversed(m.dims):
            kind = f'{kind} * {sizes.get(size, size)}' if ' * ' not in kind else f'({kind}) * {sizes.get(size, size)}'
        fields.append(f"        ('{m.name}', {kind})")
        notes += textwrap.wrap(f'{m.name}: {plain(m.text)}.', 116) if m.name != 'size' else []
        if m.has('default'):
            defaults.append(f"        members.setdefault('{m.name}', [{', '.join(m.tags['default'])}])")
    public = 'RawField' if name == 'gr_field' else camel(name)
    lines = [f'class {public}(_engine.Structure):', f'    """{name} of graticule.h. Members:', '', *['    ' + n for n in notes],
             '    """', '    _fields_ = [', ',\n'.join(fields) + ']']
    if defaults:
        lines += ['', '    def __init__(self, **members: Any) -> None:', *defaults, '        super().__init__(**members)']
    return '\n'.join(lines)


def engine_module(api):
    methods = [Method(api, name, text, arguments) for _, functions in api.sections for name, text, result, arguments in functions
               if name not in BY_HAND]
    parts = [HEAD]
    parts += [enum_text(name, values) for name, values in api.enums if name != 'gr_status']
    parts += [struct_text(api, name, members) for name, members in api.structs]
    destroys = {a.base: name for _, functions in api.sections for name, _, _, arguments in functions for a in arguments[:1]
                if re.search(r'_(destroy|close)$|^gr_finish$', name)}
    for handle, text in api.handles:
        lines = [f'class {camel(handle)}(_engine.Handle):', f'    """{text[0].upper()}{plain(text)[1:]}."""',
                 f"    _destroy = '{destroys[handle]}'"]
        if handle in COLLECTIVE:
            lines.append('    _collective = True')
        for m in methods:
            if m.owner == handle and m.name != destroys[handle] or m.name == 'gr_finish' and handle == 'gr_pending':
                lines += ['', *m.body()]
        if handle in MORE:
            lines += ['', MORE[handle]]
        parts.append('\n'.join(lines))
    parts += ['\n'.join(m.body()) for m in methods if m.owner is None]
    parts.append('\n'.join(m.spec() for m in methods if not m.name.endswith(('_destroy', '_close'))))
    names = [camel(n) for n, _ in api.handles] + [camel(n) for n, _ in api.structs if n != 'gr_field'] + \
        [camel(n) for n, _ in api.enums if n != 'gr_status'] + [m.short for m in methods if m.owner is None] + ['Field', 'init']
    parts.append('__all__ = [' + '\n           '.join(textwrap.wrap(', '.join(f"'{n}'" for n in sorted(names)), 105)) + ']')
    return '\n\n\n'.join(parts) + '\n'


HEAD = '''# SPDX-License-Identifier: BSD-3-Clause
# Made by scripts/bindings from graticule.h.
"""The engine on arrays of numpy and torch: layouts, halos, repartitions, sums over the sphere, files and checkpoints.

Boxes are half-open and counted from 0; the last axis varies fastest. Fields are used where they lie. Errors are
`graticule.Error`, with the name of the rule. MPI and Kokkos are started at the first call, unless the program has done so.
"""
from __future__ import annotations

import ctypes
import enum
from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np

from . import _engine
from ._engine import Field, init
from ._library import handle_of

Fields = Union[Any, Field, Sequence[Union[Any, Field]]]  # one array, or several'''


def signature_of(node):
    text = ast.unparse(node.args)
    return re.sub(r'^(self|cls)(, |$)', '', text)


def entries(text, public=None):
    """Classes and functions of a source with their documentation: (title, text) and, for classes, their methods."""
    for node in ast.parse(text).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith('_') and \
                (public is None or node.name in public) and ast.get_docstring(node):
            yield node


def described(node, prefix=''):
    if isinstance(node, ast.FunctionDef):
        mark = any(isinstance(d, ast.Name) and d.id == 'property' for d in node.decorator_list)
        title = f'{prefix}{node.name}' if mark else f'{prefix}{node.name}({signature_of(node)})'
        return [f'**`{title}`**', '', ast.get_docstring(node), '']
    lines = [f'### {node.name}', '']
    methods = [m for m in node.body if isinstance(m, ast.FunctionDef)]
    made = next((m for m in methods if m.name == '__init__'), None)
    if made:
        lines += ['```python', f'{node.name}({signature_of(made)})', '```']
    lines += [ast.get_docstring(node), '']
    for m in methods:
        if not m.name.startswith('_') and ast.get_docstring(m) and not any(isinstance(d, ast.Attribute) for d in m.decorator_list):
            lines += described(m, '.')
    return lines


def reference_page(api):
    public = set(re.findall(r'"(\w+)"', (PACKAGE / '__init__.py').read_text().split('__all__', 1)[1]))
    lines = ['# Python package', '', 'Made by `scripts/bindings` from the sources of [the package](../../nn_bridge/python/README.md) and from '
             '[graticule.h](../../halo/bindings/include/graticule/graticule.h). [Python](../python.md) shows programs.', '']
    for title, names, only in (('graticule', ['_domain', '_program', '_shard', '_cuts', '_xarray', '_samples', '_errors', '_library', '_launch'], public),
                               ('Collective functions', ['_collectives'], public), ('Training', ['_training'], public), ('Trained networks', ['_forecaster'], public),
                               ('graticule.nn', ['_native', '_losses', 'nn'], None), ('graticule.engine', ['_engine'], {'Field', 'init'}),
                               (None, ['engine'], None)):
        if title:
            lines += [f'## {title}', '']
        if title == 'graticule.nn':
            lines += [ast.get_docstring(ast.parse((PACKAGE / 'nn.py').read_text())), '']
        for name in names:
            text = engine_module(api) if name == 'engine' else (PACKAGE / f'{name}.py').read_text()
            for node in entries(text, only):
                lines += described(node)
    return '\n'.join(line.rstrip() for line in '\n'.join(lines).splitlines()) + '\n'
