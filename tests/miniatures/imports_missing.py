"""A module that imports a package that nobody has."""

import a_package_that_nobody_has

attention = a_package_that_nobody_has.attention
