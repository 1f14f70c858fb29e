// Monitor sends a file of predictions and labels to streameval, each row exactly once
// however often it is stopped and started, and prints the model's figures.
//
//	./generate.sh
//	go run . -stream go/example events.ndjson
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	pb "example.com/monitor/streamevalv1"
)

// A row is a line of the file: {"id": "order-7", "score": 0.31} is a prediction,
// {"id": "order-7", "label": true} what became of it.
type row struct {
	ID    string   `json:"id"`
	Score *float64 `json:"score"`
	Label *bool    `json:"label"`
}

var (
	address   = flag.String("address", "127.0.0.1:50051", "the server's gRPC address")
	stream    = flag.String("stream", "go/example", "the stream to write and to read")
	name      = flag.String("producer", "", "name of the source; the file's by default")
	epoch     = flag.Uint64("epoch", 1, "a higher one sends the source again from its start")
	batchRows = flag.Int("batch", 1000, "lines a batch; may not change while a source is sent")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: monitor [flags] FILE   (- for standard input)")
	}
	if err := monitor(flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

func monitor(path string) error {
	source := io.Reader(os.Stdin)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		source = file
	}
	if *name == "" {
		*name = path
	}
	connection, err := dial()
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx := context.Background()
	if token := os.Getenv("STREAMEVAL_TOKEN"); token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	producer := NewProducer(ctx, pb.NewIngestServiceClient(connection), *name, *epoch)
	defer producer.Close()
	if err := send(ctx, producer, source); err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	revision, err := producer.Flush(ctx)
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	if err := printFigures(ctx, pb.NewQueryServiceClient(connection), revision); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	for _, refused := range producer.Refused() {
		fmt.Printf("refused batch %d: %s\n", refused.Sequence, refused.Refusal.GetMessage())
	}
	return nil
}

// dial trusts the authority in STREAMEVAL_ROOT_CERTIFICATES; without one nothing is encrypted,
// and a token travels as plain text.
func dial() (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if roots := os.Getenv("STREAMEVAL_ROOT_CERTIFICATES"); roots != "" {
		var err error
		if transport, err = credentials.NewClientTLSFromFile(roots, ""); err != nil {
			return nil, err
		}
	}
	return grpc.NewClient(*address, grpc.WithTransportCredentials(transport))
}

// send makes two batches of each piece of the source, its predictions and its labels, also
// when one has no rows: so each piece has the same numbers whenever the source is read.
func send(ctx context.Context, producer *Producer, source io.Reader) error {
	lines := bufio.NewScanner(source)
	predictions, labels := &pb.Predictions{}, &pb.Labels{}
	number := 0
	flush := func() error {
		err := producer.Send(ctx, &pb.Batch{
			Stream: *stream, Rows: &pb.Batch_Predictions{Predictions: predictions}})
		if err == nil {
			err = producer.Send(ctx, &pb.Batch{
				Stream: *stream, Rows: &pb.Batch_Labels{Labels: labels}})
		}
		predictions, labels = &pb.Predictions{}, &pb.Labels{}
		return err
	}
	for lines.Scan() {
		number++
		var line row
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		switch {
		case line.Score != nil && line.Label == nil:
			predictions.Ids = append(predictions.Ids, line.ID)
			predictions.Scores = append(predictions.Scores, *line.Score)
		case line.Label != nil && line.Score == nil:
			labels.Ids = append(labels.Ids, line.ID)
			labels.Positives = append(labels.Positives, *line.Label)
		default:
			return fmt.Errorf("line %d needs a score or a label, not both", number)
		}
		if number%*batchRows == 0 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if number%*batchRows != 0 {
		return flush()
	}
	return nil
}

// printFigures prints the snapshot at a revision, which includes everything sent.
func printFigures(ctx context.Context, client pb.QueryServiceClient, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	answer, err := client.GetSnapshot(ctx, &pb.GetSnapshotRequest{
		Selection: &pb.Selection{Stream: *stream, MinRevision: revision},
	}, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	for _, metric := range answer.Snapshot.Metrics {
		if metric.Value == nil {
			fmt.Println(metric.Name, metric.UndefinedReason)
			continue
		}
		fmt.Print(metric.Name, " ", *metric.Value)
		if limits := metric.Interval; limits.GetLower() < limits.GetUpper() {
			fmt.Printf(" [%v, %v]", limits.GetLower(), limits.GetUpper())
		}
		fmt.Println()
	}
	coverage := answer.Snapshot.Coverage
	fmt.Println("labelled", coverage.Labelled, "of", coverage.Predictions)
	return nil
}
