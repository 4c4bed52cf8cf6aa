"""The review page: a local web application in which a person checks labels."""
