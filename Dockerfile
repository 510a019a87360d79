# One image for the app and the worker; see docs/deployment.md. Not run where it was written.
FROM python:3.11-slim

# a CPU build: --build-arg TORCH=torch==2.13.0+cpu --build-arg PIP_ARGS="--extra-index-url <index>"
ARG TORCH="torch>=2.6,<3"
ARG PIP_ARGS=""
# 1: vLLM in an environment of its own, for serving benchmarks
ARG WITH_VLLM=0

# torch.compile, which fuses the decode step on GPUs, calls a C compiler
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 linkworth && mkdir /data && chown linkworth /data
WORKDIR /app
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

COPY requirements.txt ./
RUN pip install $PIP_ARGS "$TORCH" && pip install $PIP_ARGS -r requirements.txt
COPY scripts/make_vllm.py scripts/
RUN if [ "$WITH_VLLM" = 1 ]; then python scripts/make_vllm.py .venv-vllm; fi

COPY . .
USER linkworth
ENV LINKWORTH_DATA_DIR=/data PYTHONUNBUFFERED=1
VOLUME /data
EXPOSE 8501
HEALTHCHECK CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=3)"
# inside the container all interfaces: compose.yaml publishes the port on the host's loopback only
CMD ["streamlit", "run", "app.py", "--server.address", "0.0.0.0"]
