# syntax=docker/dockerfile:1
# The gateway as an image: glibc, the run-time that the lock file pins, the sources as they are. No shell, no npm.

# Any Node from 20 on will do to install: what runs later is the package of the platform.
FROM node:22-bookworm-slim AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /app
# The run-time needs libatomic1, which neither image brings. Debian keeps one version of a package: pinning it would break the build.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends binutils libatomic1 \
 && rm -rf /var/lib/apt/lists/*
COPY package.json package-lock.json .npmrc ./
COPY config/install.mjs config/
# Packages to run, none to test; the debugging symbols of the run-time are of no use in an image.
RUN node config/install.mjs \
 && mkdir -p /out/lib /out/data \
 && cp -L "$(ldconfig -p | awk '$1 == "libatomic.so.1" { print $NF; exit }')" /out/lib/ \
 && strip -o /out/node "$(readlink -f node_modules/.bin/node)" \
 && rm -rf node_modules/node node_modules/node-linux-* node_modules/.bin
COPY . .

# Debian 12 without a shell or packages: glibc, libgcc and libstdc++, which is all that the run-time links to beside libatomic.
FROM gcr.io/distroless/cc-debian12:nonroot
LABEL org.opencontainers.image.title="svc-gateway" \
      org.opencontainers.image.description="API gateway: data plane and management interface" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /out/lib/ /usr/lib/
COPY --from=build /out/node /usr/bin/node
COPY --from=build --chown=65532:65532 /out/data /app/data
COPY --from=build /app /app
WORKDIR /app
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
# SQLite, generated secrets: the only folder that is written to. With PostgreSQL it stays empty.
VOLUME /app/data
EXPOSE 8080 3000
ENV SVC_CONFIG=/etc/svc/gateway.json
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=40s --retries=3 \
  CMD ["/usr/bin/node", "/app/control/healthy.mjs"]
# The gateway is process 1 itself, so that signals reach it.
ENTRYPOINT ["/usr/bin/node", "--disable-warning=ExperimentalWarning", "--max-semi-space-size=16", "--import", "./config/runtime.mjs", "gateway/main.ts"]
