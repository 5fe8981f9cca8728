"""A module whose function has a name that is no operation, and an object without any."""


def attend(query, key, value):
    return value


nothing = object()
