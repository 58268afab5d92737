# `qrsc web` for others on the network:
#
#   docker build -t qrsc .
#   docker run --rm -p 8000:8000 qrsc
#
# The address that it prints ends in a token; replace the name in it by that of this machine.
FROM python:3.12-slim

# The build of PyTorch without CUDA, which is a tenth of the size. For a GPU, leave this line out and add `--gpus all`.
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "torch>=2.4"

COPY pyproject.toml README.md LICENSE /build/
COPY src /build/src
RUN pip install --no-cache-dir "/build[web]" && rm -rf /build

# A user without rights, who owns nothing but the folder for clips.
RUN useradd --create-home --uid 10001 qrsc && install -d -o qrsc -g qrsc -m 700 /clips
USER qrsc
WORKDIR /clips
VOLUME /clips

EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["qrsc", "web", "--host", "0.0.0.0", "--port", "8000", "--folder", "/clips", "--no-browser"]
