package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "example.com/monitor/streamevalv1"
)

const (
	maxUnacked   = 64 // batches that are kept until the server has them on disk
	firstWait    = 100 * time.Millisecond
	longestWait  = 10 * time.Second
	reconnecting = "ingest: %v; connecting again"
)

// Producer sends numbered batches on one Ingest stream and keeps each until it is
// durable. After a broken connection it continues with the batch that the server
// names; proto/streameval/v1/ingest.proto defines the protocol.
//
// A source that gives the same batches in the same order again, such as a file, is
// counted exactly once across restarts of this process: with the same name and epoch,
// Send leaves out what an earlier process made durable.
//
// One goroutine may send at a time.
type Producer struct {
	client pb.IngestServiceClient
	open   *pb.Open
	stop   context.CancelFunc

	mu       sync.Mutex
	changed  chan struct{} // closed, and replaced, when a field below changes
	sequence uint64        // of the newest batch given to Send
	acked    uint64        // everything up to this sequence is durable
	revision uint64        // log revision that includes it
	unacked  []*pb.Batch   // from acked + 1 on
	sent     int           // so many of unacked are sent on the current connection
	history  uint64
	refused  []*pb.BatchRefused // not counted, and never sent again
	failure  error
}

// NewProducer connects in the background until Close. The name and epoch identify the
// source: a higher epoch starts at batch 1 again and shuts lower ones out.
func NewProducer(ctx context.Context, client pb.IngestServiceClient, name string, epoch uint64) *Producer {
	ctx, stop := context.WithCancel(ctx)
	p := &Producer{
		client:  client,
		open:    &pb.Open{Producer: name, Epoch: epoch},
		stop:    stop,
		changed: make(chan struct{}),
	}
	go p.run(ctx)
	return p
}

// Send numbers the batch and queues it. It waits for acks when 64 batches are unacknowledged.
func (p *Producer) Send(ctx context.Context, batch *pb.Batch) error {
	err := p.await(ctx, func() bool { return p.history != 0 && len(p.unacked) < maxUnacked })
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sequence++
	if p.sequence <= p.acked {
		return nil // sent by an earlier process
	}
	batch.Sequence = p.sequence
	p.unacked = append(p.unacked, batch)
	p.notify()
	return nil
}

// Flush waits until everything sent so far is durable, and returns a log revision that
// includes it: a query with this min_revision sees the rows.
func (p *Producer) Flush(ctx context.Context) (uint64, error) {
	err := p.await(ctx, func() bool { return p.history != 0 && len(p.unacked) == 0 })
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revision, nil
}

// Refused returns the batches that the server did not count, each with its reason.
func (p *Producer) Refused() []*pb.BatchRefused {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// Close ends the connection. Batches that are not durable are dropped; Flush first.
func (p *Producer) Close() { p.stop() }

// run connects again and again, until the context ends or an error is final.
func (p *Producer) run(ctx context.Context) {
	wait := firstWait
	for {
		began := time.Now()
		err := p.connection(ctx)
		if ctx.Err() != nil {
			err = ctx.Err()
		} else if isTransient(err) {
			log.Printf(reconnecting, err)
			if time.Since(began) > longestWait {
				wait = firstWait
			}
			select {
			case <-ctx.Done():
			case <-time.After(wait/2 + rand.N(wait)):
			}
			wait = min(2*wait, longestWait)
			continue
		}
		p.mu.Lock()
		p.failure = err
		p.notify()
		p.mu.Unlock()
		return
	}
}

// isTransient says whether the same batches may be accepted later. Any other error, such
// as a missing permission or a newer epoch elsewhere, needs the operator.
func isTransient(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.ResourceExhausted:
		return true
	}
	return errors.Is(err, io.EOF)
}

// connection sends and receives on one Ingest stream until it breaks.
func (p *Producer) connection(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	call, err := p.client.Ingest(ctx)
	if err != nil {
		cancel()
		return err
	}
	var writer sync.WaitGroup
	defer writer.Wait()
	defer cancel()
	// An error of Send is io.EOF; Recv returns the reason.
	_ = call.Send(&pb.IngestRequest{Message: &pb.IngestRequest_Open{Open: p.open}})
	for {
		response, err := call.Recv()
		if err != nil {
			return err
		}
		switch message := response.Message.(type) {
		case *pb.IngestResponse_Resume:
			if err := p.resume(message.Resume); err != nil {
				return err
			}
			writer.Add(1)
			go func() {
				defer writer.Done()
				p.write(ctx, call)
			}()
		case *pb.IngestResponse_Ack:
			p.mu.Lock()
			p.advance(message.Ack.LastSequence, message.Ack.Revision)
			p.mu.Unlock()
		case *pb.IngestResponse_Refused:
			p.mu.Lock()
			p.refused = append(p.refused, message.Refused)
			p.mu.Unlock()
		}
	}
}

// resume takes over the server's position: what it has is dropped, the rest is sent again.
func (p *Producer) resume(resume *pb.Resume) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if resume.LastSequence < p.acked {
		return fmt.Errorf("the server continues after batch %d, but has acknowledged %d (same log: %t)",
			resume.LastSequence, p.acked, resume.History == p.history)
	}
	p.history = resume.History
	p.sent = 0
	p.advance(resume.LastSequence, resume.Revision)
	return nil
}

// advance drops the batches up to an acknowledged one. The caller holds the mutex.
func (p *Producer) advance(last, revision uint64) {
	dropped := min(int(last-p.acked), len(p.unacked))
	p.unacked = p.unacked[dropped:]
	p.sent = max(p.sent-dropped, 0)
	p.acked = last
	p.revision = max(p.revision, revision)
	p.notify()
}

// write sends each batch that this connection has not sent yet.
func (p *Producer) write(ctx context.Context, call pb.IngestService_IngestClient) {
	for p.await(ctx, func() bool { return p.sent < len(p.unacked) }) == nil {
		p.mu.Lock()
		batches := p.unacked[p.sent:]
		p.sent = len(p.unacked)
		p.mu.Unlock()
		for _, batch := range batches {
			if call.Send(&pb.IngestRequest{Message: &pb.IngestRequest_Batch{Batch: batch}}) != nil {
				return // Recv returns the reason
			}
		}
	}
}

// await waits until the condition holds, which it evaluates under the mutex.
func (p *Producer) await(ctx context.Context, condition func() bool) error {
	for {
		p.mu.Lock()
		holds, failure, changed := condition(), p.failure, p.changed
		p.mu.Unlock()
		if failure != nil {
			return failure
		}
		if holds {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// notify wakes everybody who awaits a change. The caller holds the mutex.
func (p *Producer) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}
