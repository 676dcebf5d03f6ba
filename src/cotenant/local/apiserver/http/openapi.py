"""placeholder"""

from cotenant.local.apiserver.contract import ApiError


class OpenApi:
    def __init__(self, registry):
        pass

    async def serve(self, exchange):
        raise ApiError(404, "NotFound", "x")
