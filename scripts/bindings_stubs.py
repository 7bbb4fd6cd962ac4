# SPDX-License-Identifier: BSD-3-Clause
"""The layers of torch.nn in graticule.nn for type checkers and editors; for scripts/bindings --stubs."""
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STUBS = ROOT / 'nn_bridge/python/graticule/_of_torch.pyi'
OPTIONS = {'padding_by': "Literal['mode', 'domain']", 'odd_channels': 'Optional[Sequence[int]]', 'seed': 'int', 'layer': 'int',
           'first_sample': 'int', 'sharding_axes': 'Sequence[int]'}
# torch.nn has no hints for them, or only for the device.
UNHINTED = {'device': 'Any', 'dtype': 'Optional[torch.dtype]'}


def hint(parameter):
    """A parameter's type as text that a stub understands."""
    if parameter.name in UNHINTED:
        return UNHINTED[parameter.name]
    if parameter.annotation is inspect.Parameter.empty:
        return 'Any'
    text = inspect.formatannotation(parameter.annotation).replace('NoneType', 'None')
    # Sequences where torch names tuples: lists work, too.
    text = re.sub(r'tuple\[([^\]]*)\]', sequence, text)
    return text if re.fullmatch(r"[\w.\[\], |']+", text) else 'Any'


def sequence(match):
    element = 'float' if 'float' in match.group(1) else 'int'
    return f'Sequence[Optional[{element}]]' if 'None' in match.group(1) else f'Sequence[{element}]'


def given(parameter):
    type_text = hint(parameter)
    text = f'{parameter.name}: {type_text}'
    if parameter.default is inspect.Parameter.empty:
        return text
    if parameter.default is None and 'None' not in type_text and 'Optional' not in type_text and type_text != 'Any':
        return f'{parameter.name}: Optional[{type_text}] = None'
    return f'{text} = {parameter.default!r}'


def layer(serial, name, options):
    """One class of the stubs."""
    parameters = [p for p in inspect.signature(getattr(serial, name).__init__).parameters.values() if p.name != 'self']
    first = [given(p) for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    named = [given(p) for p in parameters if p.kind is p.KEYWORD_ONLY] + ['domain: Domain'] + [f'{o}: {OPTIONS[o]} = ...' for o in options]
    arguments = ', '.join(['self', *first, '*', *named])
    head = f'def __init__({arguments}) -> None: ...'
    # Broken between arguments only.
    lines = textwrap.wrap(re.sub(r'(?<!,) (?!\*)', '\1', head), 120, initial_indent='    ', subsequent_indent=' ' * 17, break_long_words=False)
    lines = [line.replace('\1', ' ') for line in lines]
    return '\n'.join([f'class {name}(_Sharded, nn.{name}):', f'    """`torch.nn.{name}` of the whole field: its arguments, and domain'
                      + ''.join(f', {o}' for o in options) + '."""', *lines])


def stubs():
    """The file's text, from the installed torch and the built package."""
    import torch
    from graticule import nn
    head = '\n'.join([
        '# SPDX-License-Identifier: BSD-3-Clause', f'# Made by scripts/bindings --stubs from torch {made_with()}.',
        '"""The layers of torch.nn with a domain."""', 'from typing import Any, Literal, Optional, Sequence, Union', '', 'import torch',
        'import torch.types', 'from torch import nn', '', 'from ._domain import Domain'])
    exported = "__all__ = [" + '\n           '.join(textwrap.wrap(', '.join(f"'{name}'" for name in nn.OF_TORCH), 105)) + ']'
    shared = 'class _Sharded:\n    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...'
    return '\n\n'.join([head, exported, shared, *(layer(torch.nn, name, nn._options(name)) for name in nn.OF_TORCH)]) + '\n'


def made_with():
    """The release of torch, whose hints differ from release to release."""
    import torch
    return '.'.join(torch.__version__.split('.')[:2])
