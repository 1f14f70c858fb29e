# The server and the command line. The image contains neither pip nor a compiler.
FROM python:3.13-slim AS build
WORKDIR /src
# hadolint ignore=DL3008
RUN apt-get update -qq && apt-get install --yes -qq --no-install-recommends binutils
COPY tools/release/constraints.txt build.txt
COPY pyproject.toml README.md LICENSE deploy/docker/constraints.txt deploy/docker/slim.py ./
COPY streameval streameval
COPY server server
ENV PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install -c build.txt hatchling hatch-fancy-pypi-readme \
 && /opt/build/bin/pip wheel --no-build-isolation --no-deps -w /wheels . ./server
# Without symbols, uvloop's library takes 2 instead of 16 MB.
RUN python -m venv /opt/streameval \
 && /opt/streameval/bin/pip install --no-compile -c constraints.txt \
    "$(echo /wheels/streameval-*.whl)[server,client,cli]" /wheels/streameval_server-*.whl \
 && /opt/streameval/bin/pip uninstall --yes pip \
 && /opt/streameval/bin/python -P slim.py \
 && find /opt/streameval -name "*.so*" -exec strip --strip-unneeded {} +

FROM python:3.13-slim
# The time that useradd writes.
ARG SOURCE_DATE_EPOCH
COPY --from=build /opt/streameval /opt/streameval
COPY --chmod=0755 deploy/docker/setup.sh /opt/streameval/bin/streameval-setup
RUN useradd --uid 10001 --no-create-home --no-log-init --shell /usr/sbin/nologin streameval \
 && install --directory --owner=streameval --group=streameval --mode=0700 \
    /var/lib/streameval /etc/streameval /etc/streameval-clients \
 && install --directory --owner=streameval --group=streameval --mode=0755 \
    /etc/streameval-monitoring
ENV PATH=/opt/streameval/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    STREAMEVAL_DATA=/var/lib/streameval \
    STREAMEVAL_LOG_FORMAT=json
USER 10001:10001
VOLUME /var/lib/streameval
EXPOSE 50051 8080
STOPSIGNAL SIGTERM
# Listens on loopback by default: on other addresses the server requires TLS and tokens.
ENTRYPOINT ["streameval"]
CMD ["serve"]
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["streameval", "health"]
