# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the documentation site, which scripts/docs builds by Sphinx: the pages of the repository as they are, and one page
for each public header."""
project = "Graticule"
copyright = "2026, Graticule developers"
extensions = ["myst_parser"]
myst_heading_anchors = 4  # with GitHub's names, so that links are right in both places
suppress_warnings = ["toc.not_included"]  # pages that other pages lead to
highlight_language = "text"

html_theme = "furo"
html_title = "Graticule"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
