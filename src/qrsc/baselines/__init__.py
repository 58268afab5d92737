"""The methods that the paper compares with, re-implemented from their publications, as rows of `qrsc evaluate`.

`classical` holds those without weights, `videors` one that optimises at test time, `learned` the networks, which have
no weights yet, `training` trains them, `rows` is the table of names. A method is one file, which says what was changed
and what it needs.
"""
