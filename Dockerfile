# The server and the command line. The image contains neither pip nor a compiler.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY deploy/docker/constraints.txt constraints.txt
COPY streameval streameval
COPY server server
RUN python -m venv /opt/streameval \
 && /opt/streameval/bin/pip install --no-cache-dir -c constraints.txt ".[server,client,cli]" ./server \
 && /opt/streameval/bin/pip uninstall --yes pip

FROM python:3.13-slim
COPY --from=build /opt/streameval /opt/streameval
COPY --chmod=0755 deploy/docker/setup.sh /opt/streameval/bin/streameval-setup
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin streameval \
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
