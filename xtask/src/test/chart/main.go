// Renders the chart as Helm does, with Go's templates and Sprig, under several sets of values; what comes out must be
// YAML, with everything in it that Kubernetes wants of each object, and what makes no sense must be refused.
//
// Helm itself takes minutes to build. Where it is installed, `helm lint --strict` is run as well.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"gopkg.in/yaml.v3"
)

type object = map[string]any

// A set of values, over those of the chart.
type set struct {
	name   string
	values string
	fails  string
	wanted []string
	absent []string
}

var sets = []set{
	{name: "as it is", wanted: []string{"DWELL_DATA_DIR", "volumeClaimTemplates:", "scheme: HTTP}", "image: \"dwell:0.1.0\""}, absent: []string{"DWELL_TLS_CERT", "DWELL_STORE", "HTTPS"}},
	{name: "many on Redis", values: "{replicas: 3, store: 'redis://redis:6379'}", wanted: []string{"replicas: 3", `value: "redis://redis:6379"`}, absent: []string{"volumeClaimTemplates", "DWELL_DATA_DIR", "mountPath: /data"}},
	{name: "TLS", values: "{tls: {secret: dwell-tls}}", wanted: []string{"scheme: HTTPS}", "DWELL_TLS_KEY", "secretName: dwell-tls"}, absent: []string{"scheme: HTTP}"}},
	{name: "everything", values: "{config: \"memory = '4GiB'\\nmax_connections = 100\", image: {tag: edge}, persistence: {storageClass: fast}, nodeSelector: {disk: ssd}, tolerations: [{key: a, operator: Exists}], affinity: {nodeAffinity: {}}}",
		wanted: []string{"    memory = '4GiB'\n    max_connections = 100", "dwell:edge", "storageClassName: fast", "disk: ssd", "operator: Exists", "nodeAffinity"}},
	{name: "many on one directory", values: "{replicas: 2}", fails: "more than one server needs a store in Redis"},
}

func main() {
	chart, wrong := os.Args[1], 0
	for _, set := range sets {
		if err := try(chart, set); err != nil {
			fmt.Printf("%s: %v\n", set.name, err)
			wrong++
		}
	}
	if wrong > 0 {
		os.Exit(1)
	}
	fmt.Printf("the chart renders under %d sets of values\n", len(sets))
}

func try(chart string, set set) error {
	var about, values, over object
	if err := read(filepath.Join(chart, "Chart.yaml"), &about); err != nil {
		return err
	}
	if err := read(filepath.Join(chart, "values.yaml"), &values); err != nil {
		return err
	}
	if err := yaml.Unmarshal([]byte(set.values), &over); err != nil {
		return err
	}
	merge(values, over)
	rendered, err := render(chart, object{
		"Values":  values,
		"Chart":   object{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
		"Release": object{"Name": "mine", "Service": "Helm", "Namespace": "default"},
	})
	if set.fails != "" {
		if err == nil || !strings.Contains(err.Error(), set.fails) {
			return fmt.Errorf("should be refused (%s), but: %v", set.fails, err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	return check(set, rendered)
}

// Renders every file that makes an object.
func render(chart string, data object) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no templates in %s: %v", chart, err)
	}
	all := template.New("chart").Option("missingkey=error")
	all.Funcs(sprig.TxtFuncMap()).Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var out strings.Builder
			err := all.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"toYaml": func(value any) (string, error) {
			text, err := yaml.Marshal(value)
			return strings.TrimSuffix(string(text), "\n"), err
		},
	})
	if _, err := all.ParseFiles(files...); err != nil {
		return nil, err
	}
	rendered := map[string]string{}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var out strings.Builder
		if err := all.ExecuteTemplate(&out, name, data); err != nil {
			return nil, err
		}
		rendered[name] = out.String()
	}
	return rendered, nil
}

func check(set set, rendered map[string]string) error {
	var all strings.Builder
	for name, text := range rendered {
		all.WriteString(text)
		var made object
		if err := yaml.Unmarshal([]byte(text), &made); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, text)
		}
		about, _ := made["metadata"].(object)
		if made["apiVersion"] == nil || made["kind"] == nil || about["name"] != "mine-dwell" {
			return fmt.Errorf("%s: no apiVersion, kind or name:\n%s", name, text)
		}
	}
	for _, words := range set.wanted {
		if !strings.Contains(all.String(), words) {
			return fmt.Errorf("%q is missing:\n%s", words, all.String())
		}
	}
	for _, words := range append(set.absent, "<no value>") {
		if strings.Contains(all.String(), words) {
			return fmt.Errorf("%q should not be there:\n%s", words, all.String())
		}
	}
	return nil
}

func read(path string, into *object) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	reader := yaml.NewDecoder(bytes.NewReader(text))
	return reader.Decode(into)
}

func merge(into, over object) {
	for key, value := range over {
		inner, isObject := value.(object)
		if old, had := into[key].(object); isObject && had {
			merge(old, inner)
		} else {
			into[key] = value
		}
	}
}
