"""A printable report of one stream: one HTML file without scripts, from the answers of `_queries`.

``words`` formats what people read, ``markup`` escapes and builds elements, ``style`` has the
sheet, ``charts`` draws inline SVG, ``contents`` computes everything at one revision,
``sections`` and ``assumptions`` write it, ``report`` is the call.
"""
