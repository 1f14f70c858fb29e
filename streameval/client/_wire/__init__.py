"""gRPC and protobuf: credentials, transports, calls, decoded answers."""
